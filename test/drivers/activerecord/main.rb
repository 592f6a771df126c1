# SPDX-License-Identifier: ISC
# ActiveRecord with its defaults: prepared statements, variables of the session, and migrations
# under an advisory lock of a session. Six threads, each with a connection of the pool.

require 'active_record'

CONNECTIONS = 6
ROUNDS = 3
PAYLOADS = %w[0 1 2 own].freeze
ADDRESS = { adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'],
            username: ENV['PGUSER'], database: ENV['PGDATABASE'] }.freeze

$stdout.sync = true
ActiveRecord::Migration.verbose = false
ActiveRecord::Base.establish_connection(
  **ADDRESS, pool: CONNECTIONS, prepared_statements: ARGV[0] == 'prepared',
  variables: { statement_timeout: '44s', 'app.program' => 'books' }
)

class Author < ActiveRecord::Base
  has_many :books, dependent: :delete_all
  validates :name, uniqueness: true
end

class Book < ActiveRecord::Base
  belongs_to :author
end

class Note < ActiveRecord::Base
end

def same(got, wanted)
  raise "#{got.inspect}, not #{wanted.inspect}" if got != wanted
end

def must_fail(error)
  yield
rescue error
  nil
else
  raise "no #{error}"
end

def ask(sql)
  ActiveRecord::Base.connection.select_value(sql)
end

def migrate
  context = ActiveRecord::MigrationContext.new('migrate', ActiveRecord::SchemaMigration)
  context.migrate
  context.rollback(2)
  context.migrate
  same(context.current_version, 20260101000002)
end

SCENARIOS = {
  rows: lambda do |who|
    author = Author.create!(name: who)
    author.books.create!((0...20).map { |n| { number: n, details: { who: who } } })
    same(Book.where(author: author).where('number >= ?', 10).update_all('number = number * 2'), 10)
    same(author.books.maximum(:number), 38)
    same(Book.where("details ->> 'who' = ?", who).find_each(batch_size: 7).count, 20)
    author.with_lock { author.update!(name: "#{who} again") }
    same(Author.includes(:books).find_by(name: "#{who} again").books.size, 20)
    author.destroy!
  end,
  savepoints: lambda do |who|
    Author.transaction do
      Author.create!(name: who)
      must_fail(ActiveRecord::RecordNotUnique) do
        Author.transaction(requires_new: true) { Author.insert_all!([{ name: who, created_at: Time.now, updated_at: Time.now }]) }
      end
      same(Author.where(name: who).count, 1)
      raise ActiveRecord::Rollback
    end
    same(Author.where(name: who).count, 0)
  end,
  variables: lambda do |_who|
    3.times do
      same(ask('SHOW statement_timeout'), '44s')
      same(ask("SELECT current_setting('app.program')"), 'books')
      same(ask('SHOW TimeZone'), 'UTC')
      same(ask('SHOW standard_conforming_strings'), 'on')
      same(ask('SHOW client_min_messages'), 'warning')
    end
  end,
  tenant: lambda do |who|
    connection = ActiveRecord::Base.connection
    connection.execute("SELECT set_config('app.tenant', #{connection.quote(who)}, false)")
    Note.create!(tenant: who)
    3.times { same(Note.distinct.pluck(:tenant), [who]) }
    must_fail(ActiveRecord::StatementInvalid) { Note.create!(tenant: 'somebody else') }
    same(Note.delete_all, 1)
    connection.execute('RESET app.tenant')
    same(Note.count, 0)
  end,
  schema: lambda do |who|
    connection = ActiveRecord::Base.connection
    name = who.tr(' ', '_')
    connection.create_schema(name) unless connection.schema_exists?(name)
    connection.schema_search_path = "#{name}, public"
    connection.create_table(:pages, force: true) { |t| t.string :title }
    connection.execute("INSERT INTO pages (title) VALUES (#{connection.quote(who)})")
    same(connection.select_values('SELECT title FROM pages'), [who])
    same(connection.current_schema, name)
    connection.schema_search_path = '"$user", public'
    same(connection.table_exists?(:pages), false)
  end,
  lock: lambda do |who|
    connection = ActiveRecord::Base.connection
    nil until connection.get_advisory_lock(74)
    connection.update("UPDATE driver_lock SET holder = #{connection.quote(who)}")
    same(ask('SELECT holder FROM driver_lock'), who)
    same(connection.release_advisory_lock(74), true)
  end,
  temporary: lambda do |who|
    connection = ActiveRecord::Base.connection
    connection.create_table(:imports, temporary: true) { |t| t.string :name }
    2.times { connection.execute("INSERT INTO imports (name) VALUES (#{connection.quote(who)})") }
    same(connection.select_values('SELECT name FROM imports'), [who, who])
    connection.drop_table(:imports, temporary: true)
  end,
  listen: lambda do |who|
    channel = who.tr(' ', '_')
    connection = ActiveRecord::Base.connection
    connection.execute("LISTEN #{channel}")
    other = PG.connect(host: ENV['PGHOST'], port: ENV['PGPORT'], user: ENV['PGUSER'],
                       dbname: ENV['PGDATABASE'])
    PAYLOADS[0..-2].each { |payload| other.exec_params('SELECT pg_notify($1, $2)', [channel, payload]) }
    other.close
    connection.execute("NOTIFY #{channel}, 'own'")
    told = []
    while told.size < PAYLOADS.size
      connection.raw_connection.wait_for_notify { |_channel, _pid, payload| told << payload }
    end
    connection.execute('UNLISTEN *')
    same(told, PAYLOADS)
  end
}.freeze

def work(number)
  names = SCENARIOS.keys.rotate(number) * ROUNDS
  name = nil
  names.each do |next_name|
    name = next_name
    SCENARIOS[name].call("connection #{number}")
    $stdout.write("ok #{name}\n")
  end
rescue StandardError => error
  $stdout.write("failed #{name} connection #{number}: #{error.class} #{error.message.tr("\n", ' ')}\n")
end

migrate
ActiveRecord::Base.clear_all_connections!
[Author, Book, Note].each(&:columns)
ActiveRecord::Base.clear_active_connections!
(0...CONNECTIONS).map { |number| Thread.new { work(number) } }.each(&:join)
