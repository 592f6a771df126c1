// SPDX-License-Identifier: ISC

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** pgjdbc, with prepareThreshold=1. The argument is autosave. */
final class Main {
	private static final int CONNECTIONS = 6;
	private static final int ROUNDS = 3;
	private static final int TEXTS = 8; // more than a server may know when the limit is small
	private static final int LINES = 200;

	private interface Scenario {
		void run(Connection connection, String who) throws Exception;
	}

	private interface Work {
		void run() throws Exception;
	}

	private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

	private static final List<String> PAYLOADS = List.of("0", "1", "2", "own");

	private static void choosePlain() {
		SCENARIOS.put("simple", Main::simple);
		SCENARIOS.put("prepared", Main::prepared);
		SCENARIOS.put("rollback", Main::rollback);
		SCENARIOS.put("recovery", Main::recovery);
		SCENARIOS.put("copy", Main::copy);
		SCENARIOS.put("batch", Main::batch);
		SCENARIOS.put("cursor", Main::cursor);
		SCENARIOS.put("cancel", Main::cancel);
		SCENARIOS.put("notices", Main::notices);
	}

	/** The scenarios of session.txt, and listen. */
	private static void chooseSession() throws Exception {
		Map<String, List<String[]>> steps = new LinkedHashMap<>();
		for (String line : Files.readAllLines(Path.of("session.txt"))) {
			String[] fields = line.split("\t");
			if (fields.length > 1 && !line.startsWith("#"))
				steps.computeIfAbsent(fields[0], name -> new ArrayList<>()).add(fields);
		}
		steps.forEach((name, list) -> SCENARIOS.put(name, (connection, who) -> {
			for (String[] step : list)
				follow(connection, step, who.substring(who.length() - 1));
		}));
		SCENARIOS.put("listen", Main::listen);
	}

	private static String autosave;

	private static void same(Object got, Object wanted) {
		if (!got.equals(wanted))
			throw new IllegalStateException(got + ", not " + wanted);
	}

	private static void mustFail(String sqlstate, Work work) throws Exception {
		try {
			work.run();
		} catch (SQLException error) {
			if (sqlstate.equals(error.getSQLState()))
				return;
			throw error;
		}
		throw new IllegalStateException("no error " + sqlstate);
	}

	/** The numbers in the first column. */
	private static List<Integer> ask(Connection connection, String sql, Object... values)
			throws SQLException {
		List<Integer> got = new ArrayList<>();
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int i = 0; i < values.length; i++)
				statement.setObject(i + 1, values[i]);
			try (ResultSet rows = statement.executeQuery()) {
				while (rows.next())
					got.add(rows.getInt(1));
			}
		}
		return got;
	}

	private static List<Integer> numbers(int first, int count) {
		List<Integer> list = new ArrayList<>();
		for (int i = 0; i < count; i++)
			list.add(first + i);
		return list;
	}

	private static void change(Connection connection, String sql, Object... values)
			throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int i = 0; i < values.length; i++)
				statement.setObject(i + 1, values[i]);
			statement.executeUpdate();
		}
	}

	private static void insert(Connection connection, String who, int number) throws SQLException {
		change(connection, "INSERT INTO driver_rows VALUES (?, ?)", who, number);
	}

	private static void clear(Connection connection, String who) throws SQLException {
		change(connection, "DELETE FROM driver_rows WHERE who = ?", who);
	}

	private static void count(Connection connection, String who, int wanted) throws SQLException {
		same(ask(connection, "SELECT count(*) FROM driver_rows WHERE who = ?", who),
			List.of(wanted));
	}

	private static void divide(Connection connection, int by, int wanted) throws SQLException {
		same(ask(connection, "SELECT 10 / ?", by), List.of(wanted));
	}

	private static void simple(Connection connection, String who) throws Exception {
		try (Statement statement = connection.createStatement()) {
			statement.execute("SELECT 1; SELECT 2");
			same(statement.getMoreResults(), true);
		}
	}

	private static void prepared(Connection connection, String who) throws Exception {
		for (int i = 0; i < 2; i++)
			for (int text = 0; text < TEXTS; text++)
				for (int again = 0; again < 2; again++)
					same(ask(connection, "SELECT ? + " + text, again),
						List.of(text + again));
	}

	private static void rollback(Connection connection, String who) throws Exception {
		connection.setAutoCommit(false);
		insert(connection, who, 1);
		count(connection, who, 1);
		connection.rollback();
		count(connection, who, 0);
		insert(connection, who, 2);
		connection.commit();
		connection.setAutoCommit(true);
		count(connection, who, 1);
		clear(connection, who);
	}

	private static void recovery(Connection connection, String who) throws Exception {
		mustFail("22012", () -> divide(connection, 0, 0));
		mustFail("42P01", () -> ask(connection, "SELECT ? FROM nowhere", 1));
		divide(connection, 5, 2);
		connection.setAutoCommit(false);
		divide(connection, 1, 10);
		Savepoint savepoint = connection.setSavepoint();
		mustFail("22012", () -> divide(connection, 0, 0));
		if (autosave.equals("always"))
			divide(connection, 1, 10);
		else
			mustFail("25P02", () -> divide(connection, 1, 10));
		connection.rollback(savepoint);
		divide(connection, 2, 5);
		connection.commit();
		connection.setAutoCommit(true);
		divide(connection, 2, 5);
	}

	private static void copy(Connection connection, String who) throws Exception {
		StringBuilder in = new StringBuilder();
		StringBuilder wanted = new StringBuilder();
		for (int i = 0; i < LINES; i++) {
			in.append(who).append('\t').append(i).append('\n');
			wanted.append(i).append('\n');
		}
		var copies = connection.unwrap(PGConnection.class).getCopyAPI();
		same(copies.copyIn("COPY driver_rows FROM STDIN",
			new ByteArrayInputStream(in.toString().getBytes("UTF-8"))), (long)LINES);
		ByteArrayOutputStream out = new ByteArrayOutputStream();
		copies.copyOut("COPY (SELECT number FROM driver_rows WHERE who = '" + who
			+ "' ORDER BY 1) TO STDOUT", out);
		same(out.toString("UTF-8"), wanted.toString());
		clear(connection, who);
	}

	private static void batch(Connection connection, String who) throws Exception {
		String sql = "INSERT INTO driver_rows VALUES (?, 10 / ?)";
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			for (int by = 1; by <= 20; by++) {
				statement.setString(1, who);
				statement.setInt(2, by);
				statement.addBatch();
			}
			same(statement.executeBatch().length, 20);
			count(connection, who, 20);
			for (int by = -5; by < 5; by++) {
				statement.setString(1, who);
				statement.setInt(2, by);
				statement.addBatch();
			}
			try {
				statement.executeBatch();
				throw new IllegalStateException("no error in a batch");
			} catch (BatchUpdateException error) {
				same(error.getSQLState(), "22012");
			}
		}
		try (Statement statement = connection.createStatement()) {
			for (int i = 0; i < TEXTS; i++)
				statement.addBatch("UPDATE driver_rows SET number = " + i
					+ " WHERE who = '" + who + "'");
			same(statement.executeBatch().length, TEXTS);
		}
		clear(connection, who);
	}

	private static void cursor(Connection connection, String who) throws Exception {
		connection.setAutoCommit(false);
		try (PreparedStatement statement =
				connection.prepareStatement("SELECT generate_series(1, ?)")) {
			statement.setInt(1, 100);
			statement.setFetchSize(10);
			List<Integer> got = new ArrayList<>();
			try (ResultSet rows = statement.executeQuery()) {
				while (rows.next()) {
					got.add(rows.getInt(1));
					if (rows.getInt(1) % 25 == 0)
						divide(connection, 5, 2);
				}
			}
			same(got, numbers(1, 100));
		}
		connection.commit();
		connection.setAutoCommit(true);
	}

	/** A request that comes before its statement has no effect, so it is sent until the end. */
	private static void cancel(Connection connection, String who) throws Exception {
		CountDownLatch over = new CountDownLatch(1);
		try (PreparedStatement statement = connection.prepareStatement("SELECT pg_sleep(?)")) {
			statement.setDouble(1, 60);
			Thread canceller = new Thread(() -> {
				try {
					while (!over.await(100, TimeUnit.MILLISECONDS))
						statement.cancel();
				} catch (InterruptedException | SQLException error) {
					System.err.println(error);
				}
			});
			canceller.start();
			try {
				mustFail("57014", statement::executeQuery);
			} finally {
				over.countDown();
				canceller.join();
			}
		}
		divide(connection, 5, 2);
	}

	private static void notices(Connection connection, String who) throws Exception {
		try (Statement statement = connection.createStatement()) {
			statement.execute("DO $$ BEGIN RAISE NOTICE '" + who + "'; END $$");
			same(statement.getWarnings().getMessage(), who);
		}
	}

	/** The first value of the result, or null. */
	private static String execute(Connection connection, String sql) throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(sql)) {
			if (!statement.execute())
				return null;
			try (ResultSet rows = statement.getResultSet()) {
				return rows.next() ? rows.getString(1) : null;
			}
		}
	}

	/** step: scenario, statement, result if there is one to check. */
	private static void follow(Connection connection, String[] step, String number)
			throws SQLException {
		String sql = step[1].replace("{n}", number);
		String result = step.length > 2 ? step[2].replace("{n}", number) : null;
		String got;
		try {
			got = execute(connection, sql);
		} catch (SQLException error) {
			if ("*".equals(result))
				return;
			throw new SQLException(sql + ": " + error.getMessage(), error.getSQLState(), error);
		}
		if (result != null && !result.equals("*"))
			same(sql + " -> " + got, sql + " -> " + result);
	}

	private static void listen(Connection connection, String who) throws Exception {
		String channel = "channel_" + who.substring(who.length() - 1);
		execute(connection, "LISTEN " + channel);
		try (Connection other = DriverManager.getConnection(url())) {
			for (String payload : PAYLOADS.subList(0, PAYLOADS.size() - 1))
				execute(other, "SELECT pg_notify('" + channel + "', '" + payload + "')");
		}
		execute(connection, "NOTIFY " + channel + ", 'own'");
		List<String> told = new ArrayList<>();
		while (told.size() < PAYLOADS.size())
			for (PGNotification one : connection.unwrap(PGConnection.class).getNotifications(0))
				told.add(one.getParameter());
		execute(connection, "UNLISTEN " + channel);
		execute(connection, "NOTIFY " + channel + ", 'nobody listens'");
		PGNotification[] late = connection.unwrap(PGConnection.class).getNotifications();
		same(late == null ? 0 : late.length, 0);
		same(told, PAYLOADS);
	}

	private static String option(String name, String variable) {
		String value = System.getenv(variable);
		return value == null ? "" : "&" + name + "=" + URLEncoder.encode(value, StandardCharsets.UTF_8);
	}

	private static String url() {
		return "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
			+ System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER")
			+ "&sslmode=" + System.getenv("PGSSLMODE") + "&prepareThreshold=1&autosave=" + autosave
			+ option("password", "PGPASSWORD") + option("channelBinding", "PGCHANNELBINDING");
	}

	private static void work(int number) {
		List<String> names = new ArrayList<>(SCENARIOS.keySet());
		String name = "connect";
		try (Connection connection = DriverManager.getConnection(url())) {
			for (int i = 0; i < ROUNDS * names.size(); i++) {
				name = names.get((i + number) % names.size());
				SCENARIOS.get(name).run(connection, "connection " + number);
				System.out.println("ok " + name);
			}
		} catch (Exception error) {
			System.out.println("failed " + name + " connection " + number + ": "
				+ error.toString().replace('\n', ' '));
		}
	}

	public static void main(String[] words) throws Exception {
		autosave = words[0];
		if (words.length > 1 && words[1].equals("session"))
			chooseSession();
		else
			choosePlain();
		List<Thread> threads = new ArrayList<>();
		for (int i = 0; i < CONNECTIONS; i++) {
			int number = i;
			threads.add(new Thread(() -> work(number)));
		}
		for (Thread thread : threads)
			thread.start();
		for (Thread thread : threads)
			thread.join();
	}
}
