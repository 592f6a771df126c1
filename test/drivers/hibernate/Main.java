// SPDX-License-Identifier: ISC

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import jakarta.persistence.LockModeType;
import jakarta.persistence.OptimisticLockException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.hibernate.ScrollMode;
import org.hibernate.ScrollableResults;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hibernate.engine.jdbc.connections.spi.MultiTenantConnectionProvider;
import org.hibernate.exception.ConstraintViolationException;
import org.hibernate.exception.GenericJDBCException;

/**
 * Hibernate on HikariCP and pgjdbc, with a schema for each tenant. Six pools of one connection.
 *
 * The argument: "default", or "older": as its older versions, Hibernate changes several tables by
 * a temporary table, and asks currval() for the values of identity columns.
 */
final class Main {
	private static final int CONNECTIONS = 6;
	private static final int ROUNDS = 3;
	private static final int ROWS = 120; // more than two blocks of ids, and than two batches

	private interface Scenario {
		void run(Worker worker) throws Exception;
	}

	private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

	static {
		SCENARIOS.put("rows", Main::rows);
		SCENARIOS.put("versions", Main::versions);
		SCENARIOS.put("identity", Main::identity);
		SCENARIOS.put("several", Main::several);
		SCENARIOS.put("savepoints", Main::savepoints);
		SCENARIOS.put("pieces", Main::pieces);
		SCENARIOS.put("tenant", Main::tenant);
		SCENARIOS.put("parameters", Main::parameters);
		SCENARIOS.put("isolation", Main::isolation);
		SCENARIOS.put("lock", Main::lock);
		SCENARIOS.put("temporary", Main::temporary);
	}

	/** Connections of HikariCP, which get their tenant's search_path. */
	private static final class Tenants implements MultiTenantConnectionProvider<String> {
		private static final long serialVersionUID = 1;
		private final transient HikariDataSource source;

		Tenants(HikariDataSource source) {
			this.source = source;
		}

		@Override
		public Connection getAnyConnection() throws SQLException {
			return source.getConnection();
		}

		@Override
		public void releaseAnyConnection(Connection connection) throws SQLException {
			connection.close();
		}

		@Override
		public Connection getConnection(String tenant) throws SQLException {
			Connection connection = source.getConnection();
			connection.setSchema(tenant);
			return connection;
		}

		@Override
		public void releaseConnection(String tenant, Connection connection) throws SQLException {
			connection.close();
		}

		@Override
		public boolean supportsAggressiveRelease() {
			return false;
		}

		@Override
		public boolean isUnwrappableAs(Class<?> type) {
			return false;
		}

		@Override
		public <T> T unwrap(Class<T> type) {
			throw new UnsupportedOperationException();
		}
	}

	/** One connection, and the factory of its sessions. */
	private static final class Worker implements AutoCloseable {
		final String who;
		final String own; // schema
		private final HikariDataSource source;
		private final SessionFactory factory;

		Worker(int number, boolean isOlder, String tables) {
			who = "connection " + number;
			own = "tenant_" + number;
			HikariConfig config = new HikariConfig();
			config.setJdbcUrl("jdbc:postgresql://" + System.getenv("PGHOST") + ":"
				+ System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"));
			config.setUsername(System.getenv("PGUSER"));
			config.addDataSourceProperty("sslmode", "disable");
			config.setMaximumPoolSize(1);
			config.setConnectionInitSql("SET statement_timeout = '44s'");
			source = new HikariDataSource(config);
			factory = factory(source, isOlder, tables);
		}

		Session open(String tenant) {
			return factory.withOptions().tenantIdentifier((Object)tenant).openSession();
		}

		Session open() {
			return open("public");
		}

		@Override
		public void close() {
			factory.close();
			source.close();
		}
	}

	private static SessionFactory factory(HikariDataSource source, boolean isOlder,
			String tables) {
		Configuration configuration = new Configuration();
		for (Class<?> model : List.of(Author.class, Book.class, Note.class, Vehicle.class, Car.class))
			configuration.addAnnotatedClass(model);
		configuration.getProperties().put("hibernate.multi_tenant_connection_provider",
			new Tenants(source));
		configuration.setProperty("hibernate.jdbc.batch_size", "50");
		configuration.setProperty("hibernate.connection.handling_mode",
			"DELAYED_ACQUISITION_AND_HOLD"); // as Spring does
		configuration.setProperty("hibernate.hbm2ddl.auto", tables);
		if (isOlder) {
			configuration.setProperty("hibernate.dialect", OlderDialect.class.getName());
			configuration.setProperty("hibernate.jdbc.use_get_generated_keys", "false");
		}
		return configuration.buildSessionFactory();
	}

	private static void same(Object got, Object wanted) {
		if (!Objects.equals(got, wanted))
			throw new IllegalStateException(got + ", not " + wanted);
	}

	/** The value of a statement, in a transaction of its own unless there is one. */
	private static String ask(Session session, String sql) {
		return session.doReturningWork(connection -> {
			try (PreparedStatement statement = connection.prepareStatement(sql)) {
				if (!statement.execute())
					return null;
				try (ResultSet rows = statement.getResultSet()) {
					return rows.next() ? rows.getString(1) : null;
				}
			}
		});
	}

	/** In a transaction of Hibernate's. */
	private static String askWithin(Session session, String sql) {
		session.beginTransaction();
		String got = ask(session, sql);
		session.getTransaction().commit();
		return got;
	}

	private static Author author(Session session, String name) {
		return session.createQuery("from Author where name = :name", Author.class)
			.setParameter("name", name).getSingleResultOrNull();
	}

	/** Many rows in batches, a change, pages of them, and what depends on them is deleted too. */
	private static void rows(Worker worker) {
		try (Session session = worker.open()) {
			session.beginTransaction();
			Author author = new Author(worker.who);
			for (int i = 0; i < ROWS; i++)
				author.add(i);
			session.persist(author);
			session.getTransaction().commit();

			session.beginTransaction();
			same(session.createMutationQuery("update Book set pages = pages * 2"
				+ " where author = :author and pages >= 60").setParameter("author", author)
				.executeUpdate(), ROWS - 60);
			session.getTransaction().commit();
		}
		try (Session session = worker.open()) {
			session.beginTransaction();
			same(session.createQuery("select max(pages) from Book where author.name = :name",
				Integer.class).setParameter("name", worker.who).getSingleResult(), 2 * (ROWS - 1));
			same(session.createQuery("from Book where author.name = :name order by id", Book.class)
				.setParameter("name", worker.who).setFirstResult(100).setMaxResults(50).list().size(),
				ROWS - 100);
			Author author = author(session, worker.who);
			same(author.books.size(), ROWS);
			session.remove(author);
			session.getTransaction().commit();
			same(author(session, worker.who), null);
		}
	}

	/** What two sessions change at once, and a row that is locked. */
	private static void versions(Worker worker) {
		String name = worker.who + " with versions";
		Author mine = new Author(name);
		try (Session session = worker.open()) {
			session.beginTransaction();
			session.persist(mine);
			session.getTransaction().commit();
		}
		try (Session session = worker.open()) {
			session.beginTransaction();
			session.lock(session.find(Author.class, mine.id), LockModeType.PESSIMISTIC_FORCE_INCREMENT);
			session.getTransaction().commit();
		}
		try (Session session = worker.open()) {
			session.beginTransaction();
			mine.name = "older";
			session.merge(mine);
			session.getTransaction().commit();
			throw new IllegalStateException("an older version was stored");
		} catch (OptimisticLockException error) {
			same(error.getMessage().contains("updated or deleted by another"), true);
		}
		try (Session session = worker.open()) {
			session.beginTransaction();
			session.remove(session.find(Author.class, mine.id, LockModeType.PESSIMISTIC_WRITE));
			session.getTransaction().commit();
		}
	}

	private static void identity(Worker worker) {
		try (Session session = worker.open()) {
			for (int i = 0; i < 3; i++) {
				session.beginTransaction();
				Note note = new Note(worker.who + " " + i);
				session.persist(note);
				session.persist(new Note(worker.who));
				session.getTransaction().commit();
				session.clear();
				same(session.find(Note.class, note.id).words, worker.who + " " + i);
			}
		}
	}

	/** Statements that change two tables. */
	private static void several(Worker worker) {
		try (Session session = worker.open()) {
			session.beginTransaction();
			for (int i = 0; i < 10; i++)
				session.persist(new Car(worker.who));
			session.getTransaction().commit();
			session.beginTransaction();
			same(session.createMutationQuery(
				"update Car set wheels = wheels - 1, doors = doors - 2 where owner = :owner")
				.setParameter("owner", worker.who).executeUpdate(), 10);
			session.getTransaction().commit();
			same(session.createQuery("select sum(wheels + doors) from Car where owner = :owner",
				Long.class).setParameter("owner", worker.who).getSingleResult(), 60L);
			session.beginTransaction();
			same(session.createMutationQuery("delete from Vehicle where owner = :owner")
				.setParameter("owner", worker.who).executeUpdate(), 10);
			session.getTransaction().commit();
		}
	}

	private static void savepoints(Worker worker) {
		String name = worker.who + " with savepoints";
		try (Session session = worker.open()) {
			session.beginTransaction();
			session.persist(new Author(name));
			session.flush();
			session.doWork(connection -> {
				Savepoint here = connection.setSavepoint();
				try (Statement statement = connection.createStatement()) {
					statement.executeUpdate("INSERT INTO Author (id, version, name) VALUES (-"
						+ name.length() + ", 0, '" + name + "')");
					throw new IllegalStateException("no error of a unique index");
				} catch (SQLException error) {
					same(error.getSQLState(), "23505");
					connection.rollback(here);
				}
			});
			same(author(session, name).name, name);
			session.getTransaction().rollback();
		}
		try (Session session = worker.open()) {
			same(author(session, name), null);
			session.beginTransaction();
			session.persist(new Author(name));
			session.persist(new Author(name));
			try {
				session.getTransaction().commit();
				throw new IllegalStateException("no error of a unique index");
			} catch (ConstraintViolationException error) {
				same(error.getSQLState(), "23505");
			}
		}
	}

	/** Rows that the server keeps until they are fetched. */
	private static void pieces(Worker worker) {
		String sql = "SELECT generate_series(1, 100)";
		try (Session session = worker.open()) {
			session.beginTransaction();
			List<Integer> got = new ArrayList<>();
			try (Stream<Integer> rows = session.createNativeQuery(sql, Integer.class)
					.setFetchSize(7).getResultStream()) {
				rows.forEach(got::add);
			}
			same(got.size(), 100);
			int sum = 0;
			try (ScrollableResults<Integer> rows = session.createNativeQuery(sql, Integer.class)
					.setFetchSize(9).scroll(ScrollMode.FORWARD_ONLY)) {
				while (rows.next()) {
					sum += rows.get();
					if (rows.get() % 30 == 0)
						same(ask(session, "SELECT 'between'"), "between");
				}
			}
			same(sum, 5050);
			session.getTransaction().commit();
		}
	}

	/** The same tables in a schema of one's own: search_path, in several transactions. */
	private static void tenant(Worker worker) {
		try (Session session = worker.open(worker.own)) {
			for (int i = 0; i < 3; i++) {
				session.beginTransaction();
				session.persist(new Note(worker.who));
				session.getTransaction().commit();
				same(ask(session, "SELECT current_schema()"), worker.own);
			}
			session.clear();
			same(session.createQuery("select count(*) from Note where words <> :who", Long.class)
				.setParameter("who", worker.who).getSingleResult(), 0L);
			session.beginTransaction();
			same(session.createMutationQuery("delete from Note").executeUpdate(), 3);
			session.getTransaction().commit();
		}
		try (Session session = worker.open()) {
			same(ask(session, "SELECT current_schema()"), "public");
		}
	}

	/** What the pool sets when it connects, and what policies for rows read. */
	private static void parameters(Worker worker) {
		String current = "SELECT current_setting('app.tenant', true)";
		try (Session session = worker.open()) {
			same(askWithin(session, "SHOW statement_timeout"), "44s");
			session.doWork(connection -> {
				try (PreparedStatement statement = connection.prepareStatement(
						"SELECT set_config('app.tenant', ?, false)")) {
					statement.setString(1, worker.who);
					statement.execute();
				}
			});
			for (int i = 0; i < 3; i++)
				same(askWithin(session, current), worker.who);
			session.beginTransaction();
			ask(session, "SET app.tenant = 'undone'");
			session.getTransaction().rollback();
			same(ask(session, current), worker.who);
			ask(session, "RESET app.tenant");
			same(ask(session, "SELECT nullif(current_setting('app.tenant', true), '')"), null);
			same(ask(session, "SHOW statement_timeout"), "44s");
		}
	}

	/** HikariCP takes these back when the connection returns to it. */
	private static void isolation(Worker worker) {
		String level = "SHOW transaction_isolation";
		String writable = "SHOW transaction_read_only";
		try (Session session = worker.open()) {
			session.doWork(connection -> {
				connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
				connection.setReadOnly(true);
			});
			for (int i = 0; i < 2; i++) {
				same(askWithin(session, level), "serializable");
				same(askWithin(session, writable), "on");
			}
		}
		try (Session session = worker.open()) {
			same(askWithin(session, level), "read committed");
			same(askWithin(session, writable), "off");
		}
	}

	/** Held over the transactions of a session. */
	private static void lock(Worker worker) {
		try (Session session = worker.open()) {
			askWithin(session, "SELECT pg_advisory_lock(76)::text");
			askWithin(session, "UPDATE driver_lock SET holder = '" + worker.who + "'");
			same(askWithin(session, "SELECT holder FROM driver_lock"), worker.who);
			same(askWithin(session, "SELECT pg_advisory_unlock(76)::text"), "true");
		}
	}

	private static void temporary(Worker worker) {
		try (Session session = worker.open()) {
			askWithin(session, "CREATE TEMPORARY TABLE scratch (words text)");
			askWithin(session, "INSERT INTO scratch VALUES ('" + worker.who + "')");
			same(session.createNativeQuery("SELECT words FROM scratch", String.class)
				.getSingleResult(), worker.who);
			askWithin(session, "DROP TABLE scratch");
		}
	}

	/** The tables, each tenant's too; then what "update" finds in the catalogs. */
	private static void migrate() {
		new Worker(CONNECTIONS, false, "create").close();
		try (Worker worker = new Worker(CONNECTIONS, false, "update");
				Session session = worker.open()) {
			for (int i = 0; i < CONNECTIONS; i++) {
				ask(session, "DROP SCHEMA IF EXISTS tenant_" + i + " CASCADE");
				ask(session, "CREATE SCHEMA tenant_" + i);
				ask(session, "CREATE TABLE tenant_" + i
					+ ".Note (LIKE public.Note INCLUDING ALL)");
			}
		}
	}

	/** The first question of a pool may be refused, so it is asked ahead. */
	private static void askFirst() {
		try (Worker worker = new Worker(CONNECTIONS, true, "validate");
				Session session = worker.open()) {
			ask(session, "SELECT lastval()");
			throw new IllegalStateException("there was a value");
		} catch (GenericJDBCException error) {
			same(error.getSQLState(), "55000");
		}
	}

	private static void work(int number, boolean isOlder) {
		List<String> names = new ArrayList<>(SCENARIOS.keySet());
		String name = "connect";
		try (Worker worker = new Worker(number, isOlder, "validate")) {
			for (int i = 0; i < ROUNDS * names.size(); i++) {
				name = names.get((i + number) % names.size());
				SCENARIOS.get(name).run(worker);
				System.out.println("ok " + name);
			}
		} catch (Exception error) {
			System.out.println("failed " + name + " connection " + number + ": "
				+ error.toString().replace('\n', ' '));
		}
	}

	public static void main(String[] words) throws InterruptedException {
		Logger.getLogger("").setLevel(Level.OFF);
		boolean isOlder = words[0].equals("older");
		migrate();
		if (isOlder)
			askFirst();
		List<Thread> threads = new ArrayList<>();
		for (int i = 0; i < CONNECTIONS; i++) {
			int number = i;
			threads.add(new Thread(() -> work(number, isOlder)));
		}
		for (Thread thread : threads)
			thread.start();
		for (Thread thread : threads)
			thread.join();
	}
}
