// SPDX-License-Identifier: ISC

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** pgjdbc while hosts fail: see python/failover.py. The argument is autosave. */
final class Failover {
	private static final int CLIENTS = 2; // of each kind
	private static final int PAUSE_MS = 5;
	private static final String INSERT = "INSERT INTO written VALUES (?)";
	private static final Map<String, Step> STEPS = new LinkedHashMap<>();

	private static volatile boolean isOver;
	private static String autosave;

	private interface Step {
		void run(Failover client) throws SQLException;
	}

	private final String kind;
	private final String name;
	private final List<String> rows = new ArrayList<>();
	private int count;
	private String stage;
	private Connection connection;

	private Failover(String kind, int number) {
		this.kind = kind;
		name = System.getenv("PGAPPNAME") + "/" + kind + "/" + number;
	}

	private String newRow() {
		rows.add(name + "/" + ++count);
		return rows.get(rows.size() - 1);
	}

	private void insert() throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
			statement.setString(1, newRow());
			statement.executeUpdate();
		}
	}

	private void simple() throws SQLException {
		try (Statement statement = connection.createStatement()) {
			statement.executeUpdate("INSERT INTO written VALUES ('" + newRow() + "')");
		}
	}

	private void batch() throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
			for (int i = 0; i < 5; i++) {
				statement.setString(1, newRow());
				statement.addBatch();
			}
			statement.executeBatch();
		}
	}

	/** pgjdbc sends BEGIN together with the first statement. */
	private void inTransaction(Step step) throws SQLException {
		connection.setAutoCommit(false);
		step.run(this);
		step.run(this);
		stage = "commit";
		connection.commit();
	}

	private void connect() throws SQLException {
		connection = DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST")
			+ ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE") + "?user="
			+ System.getenv("PGUSER") + "&sslmode=disable&prepareThreshold=1&autosave=" + autosave
			+ (kind.equals("rewritten") ? "&reWriteBatchedInserts=true" : "")
			+ (kind.equals("simple") ? "&preferQueryMode=simple" : ""));
	}

	private static synchronized void say(String... fields) {
		System.out.println(String.join("\t", fields));
	}

	private void once() {
		rows.clear();
		stage = "connect";
		try {
			if (connection == null)
				connect();
			stage = "work";
			STEPS.get(kind).run(this);
			say("ok", kind, String.join(" ", rows));
		} catch (SQLException error) {
			String words = error.toString().replace('\n', ' ').replace('\t', ' ');
			say("failed", kind, stage, String.valueOf(error.getSQLState()), words,
				String.join(" ", rows));
			connection = null;
		}
	}

	private void run() {
		while (!isOver) {
			once();
			try {
				Thread.sleep(PAUSE_MS);
			} catch (InterruptedException error) {
				return;
			}
		}
	}

	public static void main(String[] words) throws Exception {
		autosave = words[0];
		STEPS.put("autocommit", Failover::insert);
		STEPS.put("simple", Failover::simple);
		STEPS.put("transaction", client -> client.inTransaction(Failover::insert));
		STEPS.put("batch", Failover::batch);
		STEPS.put("rewritten", Failover::batch);
		STEPS.put("batches", client -> client.inTransaction(Failover::batch));
		List<Thread> threads = new ArrayList<>();
		for (String kind : STEPS.keySet())
			for (int number = 0; number < CLIENTS; number++)
				threads.add(new Thread(new Failover(kind, number)::run));
		for (Thread thread : threads)
			thread.start();
		System.in.transferTo(java.io.OutputStream.nullOutputStream());
		isOver = true;
		for (Thread thread : threads)
			thread.join();
	}
}
